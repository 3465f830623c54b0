"""The report: from hypotheses to the JSON contract, and from it to what people read."""
