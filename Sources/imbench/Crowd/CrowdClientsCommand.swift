import SocketIO
import TransportAPI

/// The process of the clients of `imbench crowd`: does what the lines of its input say, and answers on its output. It ends
/// with its input, whatever is under way then, so that it never outlives who started it.
func crowdClients(_ input: Int32, _ output: Int32) -> Int32 {
    // No more than one is under way, unless the other side is out of its mind.
    let (requests, inbox) = AsyncStream.makeStream(of: CrowdRequest.self, bufferingPolicy: .bufferingOldest(4))
    defer { inbox.finish() }
    do throws(SystemFailure) {
        let loop = try makeLoop("im-client")
        Task(executorPreference: loop) {
            var clients = CrowdClients(on: loop)
            for await request in requests { writeAll(output, await clients.answer(request).line + "\n") }
            _ = await clients.answer(.close)
        }
        var lines = LineInput(input)
        while true {
            switch lines.next(timeout: -1) {
            case .line(CrowdRequest.stop): Interruption.request()
            case .line(let line):
                if case .dropped = inbox.yield(try CrowdRequest(line)) { throw SystemFailure("too many requests") }
            case .tooLong: throw SystemFailure("a request was too long")
            case .nothing: continue
            case .end: return ExitStatus.good
            }
        }
    } catch {
        writeAll(output, CrowdAnswer.failed(error.message).line + "\n")
        return ExitStatus.failed
    }
}
