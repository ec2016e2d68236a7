import CSocketIO

/// Random numbers from the system's cryptographic source. In a simulation, they come from its seed.
package enum SystemRandom {
    /// Fills `bytes`, at most 256. Returns `false` if the system provides no random numbers now.
    package static func fill(_ bytes: UnsafeMutableRawBufferPointer) -> Bool {
        csocketio_random(bytes.baseAddress, bytes.count) == 0
    }
}
