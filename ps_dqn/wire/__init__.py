"""What tasks say to each other: the bridge, messages, encodings, and what failed."""
