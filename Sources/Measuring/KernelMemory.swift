import CommandSupport
import Foundation

/// The memory that the kernel uses for sockets and for everything else, of the whole machine. The growth while connections
/// open is theirs, if no other program does much meanwhile.
package struct KernelMemory: Sendable, Equatable {
    /// Where the bytes of small objects come from.
    package enum Source: String, Sendable {
        /// The objects in use. Only root can read them.
        case objects = "/proc/slabinfo"
        /// The pages with such objects. They stay for a while after their objects are gone, so a growth may be too small.
        case pages = "/proc/meminfo"
    }

    /// The bytes of small objects (slab): sockets, files, entries of epoll.
    package var slab: Int
    package var source: Source
    /// The bytes of the pages that TCP has for its buffers.
    package var buffers: Int

    /// The meaning and the exactness of the numbers, for a report.
    package static let explanation =
        "The kernel's memory is half of the growth of the whole machine, because both ends are on it. With other programs at "
        + "work it is wrong by what they take. Objects are exact for root (\(Source.objects.rawValue)); for others they are "
        + "whole pages (\(Source.pages.rawValue)), a few percent off, more for few clients. '-' where the system does not tell."

    /// The present numbers; `nil` if the system does not tell them.
    package static func now() -> KernelMemory? {
        #if os(Linux)
        guard let sockets = readFile("/proc/net/sockstat", limit: 1 << 16),
            let buffers = bufferPages(sockets).map({ $0 * max(1, Int(sysconf(Int32(_SC_PAGESIZE)))) })
        else { return nil }
        if let slab = readFile("/proc/slabinfo", limit: 1 << 20).flatMap(objectBytes) {
            return KernelMemory(slab: slab, source: .objects, buffers: buffers)
        }
        guard let slab = readFile("/proc/meminfo", limit: 1 << 16).flatMap(slabBytes) else { return nil }
        return KernelMemory(slab: slab, source: .pages, buffers: buffers)
        #else
        return nil
        #endif
    }

    /// The pages of TCP's buffers in the text of /proc/net/sockstat: `TCP: inuse 5 orphan 0 tw 1 alloc 6 mem 3`.
    static func bufferPages(_ text: String) -> Int? {
        let line = text.split(separator: "\n").first { $0.hasPrefix("TCP: ") }
        let words = line?.split(separator: " ") ?? []
        guard let place = words.firstIndex(of: "mem"), place + 1 < words.count else { return nil }
        return count(words[place + 1])
    }

    /// The bytes of all objects in use in the text of /proc/slabinfo (slabinfo(5)), without those of sockets in TIME-WAIT,
    /// which are left from earlier connections. `nil` for another format.
    static func objectBytes(_ text: String) -> Int? {
        let lines = text.split(separator: "\n")
        guard lines.first?.hasPrefix("slabinfo - version: 2") == true else { return nil }
        var bytes = 0
        for line in lines.dropFirst() where !line.hasPrefix("#") && !line.hasPrefix("tw_sock_") {
            // Name, objects in use, all objects, and bytes of an object.
            let words = line.split(separator: " ", maxSplits: 4)
            guard words.count == 5, let active = count(words[1]), let size = count(words[3]) else { return nil }
            bytes += active * size
        }
        return bytes
    }

    /// The bytes of pages with small objects in the text of /proc/meminfo (proc_meminfo(5)).
    static func slabBytes(_ text: String) -> Int? {
        let value = fieldValue("Slab:", in: text)
        return value?.split(separator: " ").first.flatMap(count).map { $0 * 1024 }
    }

    /// A number that is small enough to calculate with.
    private static func count(_ word: Substring) -> Int? {
        Int(word).flatMap { (0...1 << 31).contains($0) ? $0 : nil }
    }

    /// The growth since an earlier time, in bytes; `nil` if the numbers have different sources. The growth of the buffers is
    /// also `nil` if there are fewer than before, because then other programs freed more than the connections took.
    package func growth(since before: KernelMemory) -> (slab: Int, buffers: Int?)? {
        guard source == before.source else { return nil }
        return (slab - before.slab, buffers < before.buffers ? nil : buffers - before.buffers)
    }
}
