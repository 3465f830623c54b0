"""Opening evidence: the only place that reads files which somebody else wrote."""
