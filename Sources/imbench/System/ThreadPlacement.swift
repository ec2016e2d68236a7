#if os(Linux)
import CSocketIO
#endif

/// The cores that a thread may run on.
struct CoreMask: Sendable, Hashable {
    // Room for 4096 cores, more than common distributions build Linux for.
    private static let words = 64
    private var mask = [UInt](repeating: 0, count: words)

    /// The cores in the mask, in ascending order.
    var cores: [Int] {
        (0..<Self.words * UInt.bitWidth).filter { mask[$0 / UInt.bitWidth] >> ($0 % UInt.bitWidth) & 1 == 1 }
    }

    /// One core alone; none if there is no room for its number.
    init(only core: Int) {
        guard core >= 0, core < Self.words * UInt.bitWidth else { return }
        mask[core / UInt.bitWidth] = 1 << (core % UInt.bitWidth)
    }

    /// The cores of the calling thread; `nil` where the system does not tell.
    static func ofThisThread() -> CoreMask? {
        #if os(Linux)
        var result = CoreMask(only: -1)
        guard csocketio_get_affinity(&result.mask, words * MemoryLayout<UInt>.size) == 0 else { return nil }
        return result
        #else
        return nil
        #endif
    }

    /// Moves the calling thread to these cores. Returns whether the system did it; `errno` says why not.
    @discardableResult
    func applyToThisThread() -> Bool {
        #if os(Linux)
        csocketio_set_affinity(mask, Self.words * MemoryLayout<UInt>.size) == 0
        #else
        false
        #endif
    }
}

/// Which cores the two sides of a measurement run on. Left alone, the scheduler sometimes puts both on one core, where a
/// round trip costs a third, and sometimes apart, so that repeats of the same code differ by a factor of three. In real
/// life the two sides are two machines, so they are kept apart when code is compared.
struct ThreadPlacement: Sendable, Hashable {
    /// The core of the client's thread.
    var near: Int
    /// The core of the server's thread.
    var far: Int

    /// Two different cores of those that this process may use; `nil` if there is only one, or the system does not tell.
    static func apart() -> ThreadPlacement? {
        guard let cores = CoreMask.ofThisThread()?.cores, let near = cores.first, let far = cores.last, near != far
        else {
            return nil
        }
        return ThreadPlacement(near: near, far: far)
    }
}
