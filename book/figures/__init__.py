"""Python behind the book's figures: `plot` draws, `play` feeds the figures to play with."""
