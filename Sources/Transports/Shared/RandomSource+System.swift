import Protocols
import SocketIO
import TransportAPI

extension RandomSource {
    /// Returns a source of the system's cryptographic random numbers, which RFC 6455, section 10.3 requires. The system
    /// is called once for each filling of the pool.
    package static func system() -> RandomSource {
        RandomSource { pool in
            let isFilled = pool.withUnsafeMutableBytes { SystemRandom.fill($0) }
            guard !isFilled else { return }
            // One word at a time is slower, but waits until the system has enough entropy.
            var generator = SystemRandomNumberGenerator()
            for index in pool.indices { pool[index] = generator.next() }
        }
    }
}
