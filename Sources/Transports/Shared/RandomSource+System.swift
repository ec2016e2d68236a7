import Protocols
import SocketIO
import TransportAPI

extension RandomSource {
    /// The system's cryptographic source (RFC 6455, section 10.3 asks for one), asked once for each filling of the pool.
    public static func system() -> RandomSource {
        RandomSource { pool in
            let isFilled = pool.withUnsafeMutableBytes { SystemRandom.fill($0) }
            guard !isFilled else { return }
            // Word by word: slower, but it waits until the system has gathered what it needs.
            var generator = SystemRandomNumberGenerator()
            for index in pool.indices { pool[index] = generator.next() }
        }
    }
}
