"""One file a form: each has NAME, SUFFIXES and render(report, options) -> str or bytes."""
