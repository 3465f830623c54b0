"""Where the store lies: TRIAGE_HISTORY (`off`, a file, or postgresql://...), else the user's data folder."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from triage.errors import UsageError
from triage.model.base import Record

OFF = frozenset({"off", "0", "no", "none", "false"})
NAME = "history.sqlite"
SHORT = 4  # a shorter password, taken out of every word that holds it, would be told by what is missing
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_URL = re.compile(
    r"(?P<scheme>postgres(?:ql)?)://(?:(?P<user>[^:@/?#]*)(?::(?P<password>[^@/?#]*))?@)?"
    r"(?P<hosts>[^@/?#]*)(?P<database>/[^@?#]*)?(?P<parameters>\?[^@#]*)?"
)
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::\d*)?")
_SECRETS = re.compile(r"(?i)\b(?:ssl)?password=([^&\s]*)")


class Address(Record, frozen=True, kw_only=True):
    """A database by its URL. Messages take `name`, which has neither password nor parameters, and `hidden`."""

    url: str
    name: str
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Address({self.name})"

    def hidden(self, text: str) -> str:
        """A text of the driver without the URL and its passwords, in whichever form they stand in it."""
        text = text.replace(self.url, self.name)
        for secret in sorted({*self.secrets, *map(unquote, self.secrets)}, key=len, reverse=True):
            text = text.replace(secret, "***") if len(secret) >= SHORT else text
        return text


def place(told: str | None = None, environment: Mapping[str, str] | None = None) -> Path | Address | None:
    """A file, a database, or None when the user wants none (or has no home).

    told: what the command line says; else TRIAGE_HISTORY. Raises UsageError for a URL that is none of PostgreSQL.
    """
    known = os.environ if environment is None else environment
    told = known.get("TRIAGE_HISTORY", "") if told is None else told
    if told.lower() in OFF:
        return None
    if scheme := _SCHEME.match(told):
        return _address(told, scheme[1].lower())
    if told:
        return Path(told).expanduser()
    folder = _folder(known)
    return folder / "triage" / NAME if folder else None


def _address(url: str, scheme: str) -> Address:
    """The parts of a URL. What is not read with certainty is refused: some of it may be the password."""
    if scheme not in {"postgresql", "postgres"}:
        raise UsageError(f"no history in {scheme}://: name a file, postgresql://user@host/database, or off")
    found = _URL.fullmatch(url)
    if found is None or not all(_HOST.fullmatch(host) for host in found["hosts"].split(",")):
        raise UsageError(
            "the URL of the history cannot be read; it has the form postgresql://user@host:port/database, "
            "with @ : / ? # of a password percent-encoded"
        )
    account = f"{found['user']}@" if found["user"] else ""
    secrets = [found["password"] or "", *_SECRETS.findall(found["parameters"] or "")]
    name = f"{scheme}://{account}{found['hosts']}{found['database'] or ''}"
    return Address(url=url, name=name, secrets=tuple(each for each in secrets if each))


def _folder(known: Mapping[str, str]) -> Path | None:
    if told := known.get("XDG_DATA_HOME"):
        return Path(told)
    if sys.platform == "win32":
        return Path(told) if (told := known.get("LOCALAPPDATA")) else None
    home = known.get("HOME")
    if not home:
        return None
    return Path(home) / ("Library/Application Support" if sys.platform == "darwin" else ".local/share")
