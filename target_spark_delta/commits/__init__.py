"""Segments into commits, in the background, and which STATE they make true."""
