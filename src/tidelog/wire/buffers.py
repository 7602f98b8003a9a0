"""What holds bytes without promising that it owns them."""

Buffer = bytes | bytearray | memoryview
