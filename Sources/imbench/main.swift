#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

let program = Program(
    [Program.Entry(command: .run, run: runComparison)],
    transports: ["tcp", "ws", "mqtt", "udp", "memory"],
    defaultTransports: ["tcp", "ws", "mqtt", "udp"],
    codecs: ["json", "protobuf"]
)
exit(program.run(Array(CommandLine.arguments.dropFirst())))
