"""The Images page. Pictures come in the next version; until then the page says so."""
