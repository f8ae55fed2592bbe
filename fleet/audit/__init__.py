"""Which requests the audit log says something about, how much, and in which words: no I/O."""
