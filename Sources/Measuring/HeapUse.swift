import CSocketIO
import CommandSupport
import SocketIO

/// The memory of this process.
package enum HeapUse {
    /// The bytes of the heap in use. If the C library does not provide them, the bytes of the process; `nil` if these are
    /// unknown too.
    package static func now() -> Int? {
        #if os(Linux)
        let heap = csocketio_heap_in_use()
        if heap >= 0 { return heap }
        // The second number is the resident set, in pages (proc_pid_statm(5)).
        guard let text = readFile("/proc/self/statm", limit: 256),
            let pages = text.split(separator: " ").dropFirst().first.flatMap({ Int($0) })
        else { return nil }
        return pages * 4096
        #else
        return nil
        #endif
    }

    /// The same once it is stable, or after ten seconds, because closed connections are freed with a delay. TLS keeps the
    /// buffers of a connection for up to 0.8 s, and looks stable until then. Call it on the loop.
    package static func settled(on loop: EventLoop) async -> Int? {
        await pause(on: loop, until: Clocks.monotonic() + 1_000_000_000)
        var last = now() ?? 0
        for _ in 0..<50 {
            await pause(on: loop, until: Clocks.monotonic() + 200_000_000)
            guard let next = now() else { return nil }
            if abs(next - last) <= max(last / 1000, 4096) { return next }
            last = next
        }
        return last
    }
}
