import Protocols
import SocketIO

/// The system's zlib, loaded at first use. Nearly every system has it, so the package does not link with it.
package struct ZLib: MessageCompressor {
    /// The system's zlib; `nil` if there is none.
    package static let shared = ZLib(names: names)

    #if canImport(Darwin)
    static let names = ["libz.dylib", "/usr/lib/libz.1.dylib"]
    #else
    static let names = ["libz.so.1", "libz.so"]
    #endif

    let functions: Functions

    /// The version that was found, as in "1.2.13".
    package var version: String { String(cString: functions.version()) }

    /// Loads the first library of these names. Returns `nil` if there is none, or if it is not zlib.
    init?(names: [String]) {
        guard let library = names.lazy.compactMap({ dlopen($0, RTLD_NOW | RTLD_LOCAL) }).first,
            let functions = Functions(library)
        else { return nil }
        self.functions = functions
    }

    /// Makes a compressor at zlib's default level.
    package func makeDeflater(windowBits: Int) -> (any MessageDeflater)? {
        (9...15).contains(windowBits) ? ZLibDeflater(functions, windowBits: windowBits) : nil
    }

    /// Makes a decompressor.
    package func makeInflater(windowBits: Int) -> (any MessageInflater)? {
        (9...15).contains(windowBits) ? ZLibInflater(functions, windowBits: windowBits) : nil
    }
}

extension ZLib {
    // Constants of zlib.h.
    static let ok: Int32 = 0
    static let streamEnd: Int32 = 1
    static let bufferError: Int32 = -5
    static let noFlush: Int32 = 0
    static let syncFlush: Int32 = 2
    static let deflated: Int32 = 8

    /// `z_stream` of zlib.h, unchanged since version 1.0. Its state points back to it, so it must not move.
    struct Stream {
        var input: UnsafeMutableRawPointer?
        var inputCount: UInt32 = 0
        var totalInput: UInt = 0
        var output: UnsafeMutableRawPointer?
        var outputCount: UInt32 = 0
        var totalOutput: UInt = 0
        var message: UnsafeRawPointer?
        var state: UnsafeMutableRawPointer?
        var allocate: UnsafeRawPointer?
        var free: UnsafeRawPointer?
        var context: UnsafeMutableRawPointer?
        var dataType: Int32 = 0
        var checksum: UInt = 0
        var reserved: UInt = 0
    }

    /// The functions of the library that are called.
    struct Functions: Sendable {
        typealias Version = @convention(c) () -> UnsafePointer<CChar>
        typealias OnStream = @convention(c) (UnsafeMutableRawPointer) -> Int32
        typealias Run = @convention(c) (UnsafeMutableRawPointer, Int32) -> Int32
        typealias DeflateInit =
            @convention(c) (
                UnsafeMutableRawPointer, Int32, Int32, Int32, Int32, Int32, UnsafePointer<CChar>, Int32
            ) -> Int32
        typealias InflateInit =
            @convention(c) (UnsafeMutableRawPointer, Int32, UnsafePointer<CChar>, Int32) -> Int32

        let version: Version
        let deflateInit: DeflateInit
        let deflate: Run
        let deflateReset: OnStream
        let deflateEnd: OnStream
        let inflateInit: InflateInit
        let inflate: Run
        let inflateReset: OnStream
        /// Begins a new stream that can still refer to the old one.
        let inflateResetKeep: OnStream
        let inflateEnd: OnStream

        init?(_ library: UnsafeMutableRawPointer) {
            guard let version = dlsym(library, "zlibVersion"),
                let deflateInit = dlsym(library, "deflateInit2_"), let deflate = dlsym(library, "deflate"),
                let deflateReset = dlsym(library, "deflateReset"), let deflateEnd = dlsym(library, "deflateEnd"),
                let inflateInit = dlsym(library, "inflateInit2_"), let inflate = dlsym(library, "inflate"),
                let inflateReset = dlsym(library, "inflateReset"),
                let inflateResetKeep = dlsym(library, "inflateResetKeep"),
                let inflateEnd = dlsym(library, "inflateEnd")
            else { return nil }
            // These are the signatures in zlib.h.
            self.version = unsafeBitCast(version, to: Version.self)
            self.deflateInit = unsafeBitCast(deflateInit, to: DeflateInit.self)
            self.deflate = unsafeBitCast(deflate, to: Run.self)
            self.deflateReset = unsafeBitCast(deflateReset, to: OnStream.self)
            self.deflateEnd = unsafeBitCast(deflateEnd, to: OnStream.self)
            self.inflateInit = unsafeBitCast(inflateInit, to: InflateInit.self)
            self.inflate = unsafeBitCast(inflate, to: Run.self)
            self.inflateReset = unsafeBitCast(inflateReset, to: OnStream.self)
            self.inflateResetKeep = unsafeBitCast(inflateResetKeep, to: OnStream.self)
            self.inflateEnd = unsafeBitCast(inflateEnd, to: OnStream.self)
        }
    }
}
