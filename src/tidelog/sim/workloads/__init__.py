"""Who uses a simulated cluster while faults strike, all over the wire protocol: writers, readers, a group, topics."""
