#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
import MachO
#endif

/// The program that this process runs.
enum ThisProgram {
    /// Where it is; `nil` where the system does not tell.
    static var path: String? {
        var buffer = [CChar](repeating: 0, count: 4096)
        #if os(Linux)
        let length = readlink("/proc/self/exe", &buffer, buffer.count)
        guard length > 0, length < buffer.count else { return nil }
        #else
        var size = UInt32(buffer.count)
        guard _NSGetExecutablePath(&buffer, &size) == 0, let length = buffer.firstIndex(of: 0) else { return nil }
        #endif
        return String(decoding: buffer.prefix(length).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
