import SocketIO
import Testing
import TransportAPI

@testable import Transports

@Suite("Path monitors")
struct PathMonitorTests {
    private final class Log: Sendable {
        private let paths = Locked<[NetworkPath]>([])
        var all: [NetworkPath] { paths.withLock { $0 } }
        func add(_ path: NetworkPath) { paths.withLock { $0.append(path) } }
    }

    private static let home = NetworkPath(isUsable: true, network: "home")
    private static let train = NetworkPath(isUsable: true, network: "train")
    private static let none = NetworkPath(isUsable: false)

    @Test("A watcher receives the present path, and then each change until it is released")
    func manual() {
        let monitor = ManualPathMonitor(Self.home)
        let (early, late) = (Log(), Log())
        var watch: (any Sendable)? = monitor.watch { early.add($0) }
        #expect(early.all == [Self.home])
        monitor.set(Self.home)
        monitor.set(Self.none)
        let other = monitor.watch { late.add($0) }
        monitor.set(Self.train)
        #expect(watch != nil)
        watch = nil
        monitor.set(Self.home)
        #expect(early.all == [Self.home, Self.none, Self.train])
        withExtendedLifetime(other) { #expect(late.all == [Self.none, Self.train, Self.home]) }
    }

    @Test("A watcher may set, watch and release during a notification")
    func reentrant() {
        let monitor = ManualPathMonitor(Self.home)
        let log = Log()
        let inner = Locked<(any Sendable)?>(nil)
        let watch = monitor.watch { path in
            log.add(path)
            guard path == Self.none else { return }
            monitor.set(Self.train)
            let watch = monitor.watch { _ in }
            inner.withLock { $0 = watch }
        }
        monitor.set(Self.none)
        #expect(log.all == [Self.home, Self.none, Self.train])
        withExtendedLifetime(watch) {}
    }

    @Test("Each watcher ends with the last path, whichever threads set it")
    func threads() async {
        let monitor = ManualPathMonitor(Self.none)
        let log = Log()
        let watch = monitor.watch { log.add($0) }
        await withTaskGroup { group in
            for task in 0..<8 {
                group.addTask {
                    for step in 0..<200 { monitor.set(NetworkPath(isUsable: true, network: "\(task) \(step)")) }
                }
            }
        }
        monitor.set(Self.home)
        #expect(log.all.last == Self.home)
        withExtendedLifetime(watch) {}
    }

    #if os(Linux)
    @Test("The system's monitor reports the present path at once")
    func system() async throws {
        let log = Log()
        let watch = try SystemPathMonitor.make().watch { log.add($0) }
        let first = try #require(log.all.first)
        #expect(first.isUsable != first.network.isEmpty)
        withExtendedLifetime(watch) {}
    }
    #else
    @Test("This system has no path monitor")
    func system() throws {
        let error = #expect(throws: TransportError.self) { _ = try SystemPathMonitor.make() }
        #expect(error?.code == .unsupported)
    }
    #endif
}
