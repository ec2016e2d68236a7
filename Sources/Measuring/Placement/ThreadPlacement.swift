import CSocketIO
import CommandSupport
import Foundation

/// The cores on which a thread may run.
package struct CoreMask: Sendable, Hashable {
    // Room for 4096 cores. On a machine with more, the kernel refuses this size (sched_getaffinity(2)).
    private static let words = 64
    private var mask = [UInt](repeating: 0, count: words)

    /// The cores in the mask, in ascending order.
    package var cores: [Int] {
        (0..<Self.words * UInt.bitWidth).filter { mask[$0 / UInt.bitWidth] >> ($0 % UInt.bitWidth) & 1 == 1 }
    }

    /// One core alone; none if there is no room for its number.
    package init(only core: Int) {
        guard core >= 0, core < Self.words * UInt.bitWidth else { return }
        mask[core / UInt.bitWidth] = 1 << (core % UInt.bitWidth)
    }

    /// The cores of the calling thread; `nil` where the system does not provide them.
    package static func ofThisThread() -> CoreMask? {
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
    package func applyToThisThread() -> Bool {
        #if os(Linux)
        csocketio_set_affinity(mask, Self.words * MemoryLayout<UInt>.size) == 0
        #else
        false
        #endif
    }
}

/// How the two sides of a measurement share the cores.
package enum Placement: String, Sendable, Hashable, CaseIterable {
    /// On two different cores.
    case apart
    /// On one core.
    case same
    /// Wherever the scheduler puts them.
    case free
}

/// The cores of the two sides of a measurement. Without a placement, the scheduler sometimes puts both on one core, where a
/// round trip costs a third, and sometimes on two. It decides for each pair of threads, so a floor and a transport may
/// measure two kinds of round trip. In production the two sides are two machines, so a comparison of code keeps them apart.
package struct ThreadPlacement: Sendable, Hashable {
    /// The core of the client's thread.
    package var near: Int
    /// The core of the server's thread.
    package var far: Int

    /// Two different cores of those that this process may use; `nil` if there is only one, or the system does not provide
    /// them.
    package static func apart() -> ThreadPlacement? {
        resolve(.apart, cores: CoreMask.ofThisThread()?.cores).placement.flatMap { $0.near == $0.far ? nil : $0 }
    }

    /// The cores for a placement.
    ///
    /// - Parameter cores: those that this process may use, in ascending order; `nil` where the system does not provide them.
    /// - Returns: the cores, which are `nil` if the scheduler chooses, and a sentence if the placement is not the requested one.
    package static func resolve(_ wanted: Placement, cores: [Int]?) -> (placement: ThreadPlacement?, remark: String?) {
        guard wanted != .free else { return (nil, nil) }
        guard let near = cores?.first, let far = cores?.last else {
            return (nil, "this system does not place threads, so the scheduler places client and server (free)")
        }
        guard wanted == .apart else { return (ThreadPlacement(near: near, far: near), nil) }
        let remark = "this process may use one core only, so client and server share it (same)"
        return (ThreadPlacement(near: near, far: far), near == far ? remark : nil)
    }
}

extension ThreadPlacement? {
    /// The placement that these cores are.
    package var kind: Placement {
        map { $0.near == $0.far ? .same : .apart } ?? .free
    }

    /// For reports.
    package var sentence: String {
        guard let cores = self else { return "client and server wherever the scheduler put them (free)" }
        return cores.near == cores.far
            ? "client and server on core \(cores.near) (same)"
            : "client on core \(cores.near), server on core \(cores.far) (apart)"
    }
}

/// A thread outside of Swift's pools, for loops that block or spin. It must be joined.
package struct WorkerThread: Sendable {
    private final class Body {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    #if canImport(Darwin)
    // A pointer that is only passed back to the system.
    private nonisolated(unsafe) let thread: pthread_t
    #else
    private let thread: pthread_t
    #endif

    /// Starts a thread that runs `body`, on one core if `core` is given and the system allows it. Throws if the system cannot
    /// start a thread.
    package init(on core: Int? = nil, _ body: @escaping @Sendable () -> Void) throws(SystemFailure) {
        let argument = Unmanaged.passRetained(
            Body {
                if let core { CoreMask(only: core).applyToThisThread() }
                body()
            }
        )
        #if canImport(Darwin)
        var started: pthread_t?
        let status = pthread_create(&started, nil, { Self.run($0) }, argument.toOpaque())
        #else
        var identifier = pthread_t()
        let status = pthread_create(&identifier, nil, { $0.flatMap { Self.run($0) } }, argument.toOpaque())
        let started: pthread_t? = identifier
        #endif
        guard status == 0, let started else {
            argument.release()
            throw SystemFailure("cannot start a thread", errno: status)
        }
        thread = started
    }

    /// Waits for the thread's end.
    package func join() {
        pthread_join(thread, nil)
    }

    private static func run(_ argument: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
        Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run()
        return nil
    }
}
