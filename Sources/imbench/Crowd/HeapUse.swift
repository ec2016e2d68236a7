import SocketIO

#if os(Linux)
import CSocketIO
#endif

/// How much memory this process uses.
enum HeapUse {
    /// Bytes of the heap in use, or of the process where the C library does not tell; `nil` where nobody does.
    static func now() -> Int? {
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

    /// The same once it changes no more, or after ten seconds: what has just been closed takes a moment to be gone. To be
    /// called on the loop.
    static func settled(on loop: EventLoop) async -> Int? {
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
