import TransportAPI
import Transports

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

// SubmitUntilKilled URL STORE FIRST: an app that submits the numbers from FIRST on, in the delivery mode `session` and with
// this store, as in `file:/tmp/outbox`. Prints each number that the supervisor has accepted, at once. It goes on until it is
// killed. A number that the store refuses is submitted again. It prints any other error and ends with status 1.

let words = CommandLine.arguments
guard words.count == 4, var number = Int(words[3]) else { exit(64) }
do {
    let file = """
        {"endpoints": ["\(words[1])"], "delivery": {"mode": "session"}, "outbox": {"store": "\(words[2])", "count": 200}}
        """
    let supervisor = try Supervisor(TransportConfiguration(json: file.utf8))
    supervisor.connect()
    while true {
        do throws(TransportError) {
            _ = try await supervisor.submit(Payload(text: "\(number)"))
        } catch {
            guard error.code == .storageFailed else { throw error }
            continue
        }
        let line = "\(number)\n"
        // Not buffered, because a kill loses what is in a buffer.
        guard write(STDOUT_FILENO, line, line.utf8.count) == line.utf8.count else { exit(2) }
        number += 1
    }
} catch {
    print(error)
    exit(1)
}
