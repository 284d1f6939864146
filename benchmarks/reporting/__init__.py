"""Reports of a run: tables, the verdict on the targets, pictures, pages. Nothing here starts a broker."""
