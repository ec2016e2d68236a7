import SocketIO

/// Whether the system's OpenSSL can be loaded. Without it, tests with TLS are skipped.
let hasOpenSSL = OpenSSL.shared is OpenSSL
