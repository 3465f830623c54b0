"""Made-up secrets of every kind, put together at run time so that no scanner takes this file for a leak."""

from __future__ import annotations

import random
import string

HEX, WORD, UPPER = "0123456789abcdef", string.ascii_letters + string.digits, string.ascii_uppercase + string.digits


def made(prefix: str, count: int, letters: str = WORD, end: str = "") -> str:
    """A value with that prefix; the same in every run."""
    source = random.Random(prefix + str(count))
    return prefix + "".join(source.choice(letters) for _ in range(count)) + end


def planted() -> dict[str, tuple[str, str]]:
    """Name: a line as logs, environments, command lines and URLs hold it, and the secret in it."""
    shaped = {
        "anthropic": made("sk-" + "ant-api03-", 60), "openrouter": made("sk-or-" + "v1-", 64, HEX),
        "openai": made("sk-" + "proj-", 48), "openai-old": made("sk" + "-", 48), "groq": made("gsk" + "_", 52),
        "xai": made("xai" + "-", 80), "nvidia": made("nvapi" + "-", 64), "perplexity": made("pplx" + "-", 48),
        "together": made("tgp" + "_v1_", 43), "replicate": made("r8" + "_", 37), "runpod": made("rpa" + "_", 44, UPPER),
        "huggingface": made("hf" + "_", 34), "huggingface-org": made("api_" + "org_", 34),
        "wandb-new": made("wandb" + "_v1_", 60), "aws-id": made("AK" + "IA", 16, UPPER),
        "aws-temporary-id": made("AS" + "IA", 16, UPPER), "aws-session": made("IQoJ" + "b3JpZ2", 200),
        "google": made("AI" + "za", 35), "google-oauth": made("ya29" + ".", 80),
        "google-refresh": made("1/" + "/0", 60),
        "google-client": made("GOC" + "SPX-", 28), "azure-client": made("a1B8Q" + "~", 33),
        "github": made("gh" + "p_", 36),
        "github-server": made("gh" + "s_", 36), "github-fine": made("github" + "_pat_", 82),
        "gitlab": made("gl" + "pat-", 20),
        "gitlab-runner": made("gl" + "rt-", 24), "bitbucket": made("AT" + "BB", 32),
        "atlassian": made("ATA" + "TT3", 100),
        "slack": made("xo" + "xb-", 40), "slack-app": made("xa" + "pp-1-", 40),
        "telegram": made("1234567890" + ":AA", 33),
        "stripe": made("sk_" + "live_", 24), "stripe-hook": made("wh" + "sec_", 32),
        "sendgrid": made("SG" + ".", 22) + made(".", 43), "mailgun": made("key" + "-", 32, HEX),
        "mailchimp": made("", 32, HEX, "-us" + "19"), "npm": made("np" + "m_", 36), "pypi": made("pypi" + "-AgEI", 80),
        "rubygems": made("ruby" + "gems_", 48, HEX), "docker": made("dckr" + "_pat_", 27),
        "digitalocean": made("dop" + "_v1_", 64, HEX), "vault": made("hv" + "s.", 90),
        "terraform": made("", 14, WORD, ".atlas" + "v1.") + made("t", 66), "databricks": made("da" + "pi", 32, HEX),
        "grafana": made("gl" + "sa_", 41), "newrelic": made("NR" + "AK-", 27, UPPER),
        "sentry": made("sntr" + "ys_", 60),
        "shopify": made("shp" + "at_", 32, HEX), "linear": made("lin" + "_api_", 40), "notion": made("nt" + "n_", 46),
        "airtable": made("pa" + "t", 14) + made(".", 64, HEX), "figma": made("fig" + "d_", 40),
        "postman": made("PM" + "AK-", 24, HEX) + made("-", 34, HEX), "planetscale": made("pscale" + "_tkn_", 43),
        "doppler": made("dp." + "pt.", 43), "heroku": made("HR" + "KU-", 60), "tailscale": made("ts" + "key-auth-", 40),
        "supabase": made("sb" + "p_", 40, HEX), "age": made("AGE-SECRET" + "-KEY-1", 58, UPPER),
        "aliyun": made("LT" + "AI", 20), "tencent": made("AK" + "ID", 32), "volcengine": made("AK" + "LT", 46),
        "jwt": made("ey" + "J", 40) + made(".ey" + "J", 80) + made(".", 43),
    }  # fmt: skip
    lines = {name: (f"2026-08-01 10:00:00 rank 3 uses {value} for this", value) for name, value in shaped.items()}
    return lines | _placed()


def _placed() -> dict[str, tuple[str, str]]:
    """Secrets known only by where they stand."""
    value, forty = made("Q9", 30), made("", 40, HEX)
    lines = {
        "environment-key": f"WANDB_API_KEY={forty}", "environment-password": f"export PGPASSWORD='{value}'",
        "environment-token": f"MY_SERVICE_TOKEN={value}", "quoted": f'"client_secret": "{value}"',
        "python": f"db_password = b'{value}'", "yaml": f"  secretAccessKey: {value}",
        "json": f'{{"access_token":"{value}"}}',
        "aws-secret": f"aws_secret_access_key = {made('', 40)}", "flag": f"train.py --wandb-api-key {value} --lr 3e-4",
        "flag-equals": f"train.py --hub-token={value} --lr 3e-4",
        "storage": f"AccountName=a;AccountKey={value}==;Suffix=x",
        "shared-access": f"Endpoint=sb://x/;SharedAccessKey={value}=",
        "sas": f"https://x.blob/a?sv=2022&sig={value}%3D",
        "amazon-url": f"https://b.s3/x?X-Amz-Signature={made('', 64, HEX)}&y=1",
        "url-password": f"redis://default:{value}@redis:6379/0",
        "url-token": f"git clone https://{value}@github.example/o/r.git",
        "proxy": f"https_proxy=http://svc:{value}@proxy:3128",
        "query": f"GET /v1/x?api_key={value}&page=2", "bearer": f"curl -H 'Authorization: Bearer {value}'",
        "basic": f"authorization: Basic {value}==", "cookie": f"Cookie: session={value}; theme=dark",
        "slack-hook": f"https://hooks.slack.com/services/T0/{value}",
        "discord-hook": f"https://discord.com/api/webhooks/123456789/{value}",
        "teams-hook": f"https://x.webhook.office.com/webhookb2/{value}",
        "mysql": f"mysqldump -h db -u root -p{value} train",
        "sshpass": f"sshpass -p {value} ssh node017", "curl": f"curl -u admin:{value} https://x",
        "redis": f"redis-cli -h r -a {value} ping",
        "docker-login": f"docker login -u me -p {value} registry", "openssl": f"openssl rsa -passin pass:{value}",
        "netrc": f"machine api.wandb.ai login user password {forty}", "docker-auth": f'"auth": "{value}=="',
        "kubeconfig": f"    client-key-data: {made('LS0t', 200)}", "slurmdbd": f"StoragePass={value}",
        "wandb-login": f"wandb: Appending key for api.wandb.ai to your netrc file: {forty}",
        "connection": f"Server=db;User Id=sa;Password={value};",
        "key-in-line": f"-----BEGIN RSA PRIVATE KEY-----{value}",
    }  # fmt: skip
    known = {"aws-secret": made("", 40), "amazon-url": made("", 64, HEX), "kubeconfig": made("LS0t", 200)}
    return {name: (line, known.get(name, forty if forty in line else value)) for name, line in lines.items()}


BLOCKS = {
    "pem": "-----BEGIN OPENSSH PRIVATE " + "KEY-----\n{0}\n{1}\n{2}\n-----END OPENSSH PRIVATE " + "KEY-----",
    "prefixed": "3: -----BEGIN EC PRIVATE " + "KEY-----\n3: {0}\n3: {1}\n3: {2}\n3: -----END EC PRIVATE " + "KEY-----",
    "cut": "-----BEGIN PRIVATE " + "KEY-----\n{0}\n{1}\n{2}\n2026-08-01 10:00:00 step 3 loss 2.5, no end of it",
    "pair-json": '{{"env": [\n  {{\n    "name": "WANDB_API_KEY",\n    "value": "{0}"\n  }}]}}',
    "pair-yaml": "env:\n- name: HF_TOKEN\n  value: {0}\n- name: NCCL_DEBUG\n  value: INFO",
    "arguments": '"args": [\n  "--api-key",\n  "{0}",\n  "--lr",\n  "3e-4"]',
}
