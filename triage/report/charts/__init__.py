"""The pictures of the page, one a file: `collect` takes what it needs from the incident, `svg` or `png` draws it."""
