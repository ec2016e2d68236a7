import Protocols
import SocketIO
import TransportAPI
import Transports

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

// CloseAndExit URL BYTES: sends BYTES bytes to a server, closes the connection, and exits at once. The exit loses
// everything that `close` has not waited for. Prints how many bytes `close` reports as undelivered. The status is 1 if
// a message was not accepted. With a third word, `openssl`, it has used OpenSSL itself before, with the default
// configuration file or that of the environment.

let words = CommandLine.arguments
guard words.count == 3 || words.dropFirst(3) == ["openssl"], let bytes = Int(words[2]), (1...1 << 30).contains(bytes)
else { exit(64) }
if words.count > 3 {
    guard let library = OpenSSL.names.lazy.compactMap({ dlopen($0, RTLD_NOW) }).first,
        let initialize = dlsym(library, "OPENSSL_init_ssl")
    else { exit(69) }
    typealias Initialize = @convention(c) (UInt64, UnsafeRawPointer?) -> Int32
    print("OPENSSL_init_ssl: \(unsafeBitCast(initialize, to: Initialize.self)(0, nil))")
}
do {
    let connection = try await TransportRegistry.standard.connect(words[1])
    var left = bytes
    while left > 0 {
        let count = min(left, 65_536)
        switch await connection.send(Payload([UInt8](repeating: 0x61, count: count))) {
        case .written, .acknowledged: left -= count
        case let outcome:
            print("outcome of a message: \(outcome)")
            exit(1)
        }
    }
    print(await connection.close())
} catch {
    print(error)
    exit(1)
}
exit(0)
