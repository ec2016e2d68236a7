import CSocketIO

/// Random numbers of the system's cryptographic source; inside a simulation, of its seed.
package enum SystemRandom {
    /// Fills `bytes`, 256 at most; `false` if the system gives none now.
    package static func fill(_ bytes: UnsafeMutableRawBufferPointer) -> Bool {
        csocketio_random(bytes.baseAddress, bytes.count) == 0
    }
}
