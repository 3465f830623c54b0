"""From the incident graph to ranked hypotheses: playbooks, questions, confidence, verdict."""
