"""From signals, marks and facts to the incident graph: who is who, when it was, what caused what."""
