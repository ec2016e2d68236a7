import SocketIO

/// Whether this machine has OpenSSL. Tests of encrypted transports are skipped without it.
package let hasOpenSSL = OpenSSL.shared is OpenSSL
