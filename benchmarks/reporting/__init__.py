"""What is made of the figures of a run: tables, the verdict on the targets, pictures, pages. Nothing here starts a broker."""
