"""What a stream is: its SCHEMA checked, its destination, and what would lose or double its rows."""
