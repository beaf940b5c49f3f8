"""One Delta table: made, changed, committed to, known again."""
