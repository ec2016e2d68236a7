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

/// How the two sides of a measurement share the cores.
enum Placement: String, Sendable, Hashable, CaseIterable {
    /// On two different cores.
    case apart
    /// On one core.
    case same
    /// Wherever the scheduler puts them.
    case free
}

/// Which cores the two sides of a measurement run on. Left alone, the scheduler sometimes puts both on one core, where a
/// round trip costs a third, and sometimes apart. It decides for each pair of threads anew, so that a floor and a transport
/// compare two kinds of round trip. In real life the two sides are two machines, so they are kept apart when code is compared.
struct ThreadPlacement: Sendable, Hashable {
    /// The core of the client's thread.
    var near: Int
    /// The core of the server's thread.
    var far: Int

    /// Two different cores of those that this process may use; `nil` if there is only one, or the system does not tell.
    static func apart() -> ThreadPlacement? {
        resolve(.apart, cores: CoreMask.ofThisThread()?.cores).placement.flatMap { $0.near == $0.far ? nil : $0 }
    }

    /// The cores for a placement.
    ///
    /// - Parameter cores: those that this process may use, in ascending order; `nil` where the system does not tell.
    /// - Returns: the cores, which are `nil` if the scheduler chooses, and a sentence if the placement is not what was
    ///   asked for.
    static func resolve(_ wanted: Placement, cores: [Int]?) -> (placement: ThreadPlacement?, remark: String?) {
        guard wanted != .free else { return (nil, nil) }
        guard let near = cores?.first, let far = cores?.last else {
            return (nil, "this system does not place threads, so that the scheduler places client and server (free)")
        }
        guard wanted == .apart else { return (ThreadPlacement(near: near, far: near), nil) }
        let remark = "this process may use one core only, so that client and server share it (same)"
        return (ThreadPlacement(near: near, far: far), near == far ? remark : nil)
    }
}

extension ThreadPlacement? {
    /// What these cores come to.
    var kind: Placement {
        map { $0.near == $0.far ? .same : .apart } ?? .free
    }

    /// For reports.
    var sentence: String {
        guard let cores = self else { return "client and server wherever the scheduler put them (free)" }
        return cores.near == cores.far
            ? "client and server on core \(cores.near) (same)"
            : "client on core \(cores.near), server on core \(cores.far) (apart)"
    }
}
