import Primitives
import SocketIO
import TransportAPI

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// `imbench chat`: a chat in the terminal, or through pipes. At the end of its input it waits until the server has
/// everything.
func chat(_ options: Options) throws(SystemFailure) -> Int32 {
    let setup: ChatSetup
    do throws(TransportError) {
        setup = try ChatSetup(options)
    } catch {
        return complain(error)
    }
    let display = StandardDisplay(
        replacesInput: Terminal.isTerminal(STDIN_FILENO) && Terminal.isTerminal(STDOUT_FILENO)
    )
    let started: Result<LoopBound<ChatClient>, TransportError> = runBlocking(on: .shared) {
        do throws(TransportError) {
            return .success(try await ChatClient.start(setup, display))
        } catch {
            return .failure(error)
        }
    }
    switch started {
    case .success(let client): return ChatSession(client: client, display: display).run()
    case .failure(let error): return complain(error)
    }
}

/// Reads what the user types until there is nothing more to do.
private struct ChatSession {
    static let help = [
        "/history  the last messages and their ticks: ✓ the server has it, ✓✓ somebody's program has shown it",
        "/state    how the connection is",
        "/quit     ends the chat, after two seconds at most for what is under way",
        "//text    sends a line that begins with a slash",
    ]

    let client: LoopBound<ChatClient>
    let display: StandardDisplay

    func run() -> Int32 {
        var input = LineInput(STDIN_FILENO)
        var wasFull = false
        reading: while !Interruption.isRequested, !isFinal {
            // Whoever types far ahead of the server is not read until it has caught up.
            let isFull = underWay >= ChatClient.underWayLimit
            if isFull, !wasFull {
                display.show(.status("\(underWay) messages are under way; no more are read for now"))
            }
            wasFull = isFull
            if isFull {
                _ = poll(nil, 0, 20)
                continue
            }
            switch input.next(timeout: 100) {
            case .nothing: break
            case .tooLong: display.show(.status("a line of more than \(LineInput.longestLine) bytes was not sent"))
            case .end:
                wait { !isFinal }
                break reading
            case .line("/quit"):
                let deadline = Clocks.monotonic() + 2_000_000_000
                wait { isOpen && Clocks.monotonic() < deadline }
                break reading
            case .line(let line): take(line)
            }
        }
        let hasFailed = isFinal
        let left = runBlocking(on: .shared) { [client] in
            let left = client.value.underWay
            await client.value.close()
            return left
        }
        if left > 0 { display.show(.status("\(left) messages were not acknowledged")) }
        return left == 0 && !hasFailed ? ExitStatus.good : ExitStatus.failed
    }

    private var isFinal: Bool { runBlocking(on: .shared) { [client] in client.value.state.isFinal } }
    private var isOpen: Bool { runBlocking(on: .shared) { [client] in client.value.state.isOpen } }

    private var underWay: Int { runBlocking(on: .shared) { [client] in client.value.underWay } }

    /// Waits for what is under way, as long as that makes sense.
    private func wait(while makesSense: () -> Bool) {
        while !Interruption.isRequested, runBlocking(on: .shared, { [client] in client.value.underWay > 0 }),
            makesSense()
        {
            _ = poll(nil, 0, 20)
        }
    }

    private func take(_ line: String) {
        switch line {
        case "": break
        case "/help": for line in Self.help { display.show(.status(line)) }
        case "/history": runBlocking(on: .shared) { [client] in client.value.showHistory() }
        case "/state": runBlocking(on: .shared) { [client] in await client.value.showState() }
        case _ where line.hasPrefix("/") && !line.hasPrefix("//"):
            display.show(.status("there is no \(line); /help says what there is"))
        default:
            let text = line.hasPrefix("//") ? String(line.dropFirst()) : line
            runBlocking(on: .shared) { [client] in await client.value.typed(text, client) }
        }
    }
}

/// Standard output. On a terminal a message takes the place of the line that the user has typed.
private struct StandardDisplay: ChatDisplay {
    let replacesInput: Bool

    func show(_ line: ChatLine) {
        let isOwn = if case .own = line { true } else { false }
        writeAll(STDOUT_FILENO, (replacesInput && isOwn ? "\u{1b}[1A\u{1b}[2K" : "") + line.text + "\n")
    }
}
