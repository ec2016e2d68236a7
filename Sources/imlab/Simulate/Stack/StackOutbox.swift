import Simulation
import TransportAPI

/// A client whose processes have a store, one after the other, and what is promised to its app: an accepted message is
/// received by the server's app, and a message that the app has acknowledged never comes again.
final class StackOutbox {
    let name: String
    let disk: StackDisk
    private let run: StackRun
    /// The messages that were accepted, and neither arrived nor came back.
    private var owed: Set<StackMessage> = []
    /// The messages that came back, because the server refuses them.
    private var returned: Set<StackMessage> = []
    /// The received messages of the client by their identifiers. The server's app knows these if it acknowledges.
    private var arrived: [StackMessage: ReceivedMessage.ID?] = [:]
    /// The process whose message arrived last, and the last number of each of its senders.
    private var last: (user: Int, numbers: [String: Int]) = (0, [:])
    /// Whether a process could not write to the store when it began. Then it has a session of its own, in which the server
    /// receives messages again. Their identifiers are the same.
    private(set) var hasOwnSession = false
    /// The messages of servers that the app was given.
    private var given: [StackMessage: ReceivedMessage.ID] = [:]
    /// What the app of the current process has acknowledged, by the numbers of the messages.
    private var acknowledged: [(number: UInt64, message: StackMessage)] = []
    /// What the app has acknowledged, and the store knows it.
    private var processed: Set<StackMessage> = []

    init(_ run: StackRun, _ name: String, _ disk: StackDisk) {
        (self.run, self.name, self.disk) = (run, name, disk)
    }

    // MARK: Processes

    /// Another process begins.
    func begins() { acknowledged = [] }

    func beginsOwnSession() { hasOwnSession = true }

    /// The current process was killed. What the store has is sent by the next one, also if the caller was told that it is
    /// not sent, and the end of the process came before the store forgot it.
    func wasKilled() {
        for message in disk.messages { run.checker.revives(message) }
    }

    /// A server was killed that may have acknowledged any message before its app took it.
    func forgetOwed() { owed = [] }

    // MARK: Messages of the client

    /// `submit` has accepted a message.
    func accepts(_ message: StackMessage) {
        if arrived[message] == nil, !returned.contains(message) { owed.insert(message) }
    }

    /// The app got a message back.
    func returns(_ message: StackMessage, _ outcome: SendOutcome) {
        owed.remove(message)
        returned.insert(message)
        let size = run.checker.sent[message]?.size ?? 0
        if size <= run.plan.serverLimit - SessionFrame.messageOverhead, !run.isOver {
            run.checker.fail(
                "\(name): \(message) of \(size) bytes was accepted with a store, and came back: \(outcome)"
            )
        }
    }

    /// The app of a server has received a message.
    ///
    /// - Parameter received: `nil` if the app does not acknowledge.
    func arrives(_ message: StackMessage, _ received: ReceivedMessage?, at receiver: String) {
        owed.remove(message)
        // Otherwise the session is the same in all processes.
        let isSame = !run.wasServerKilled && !hasOwnSession
        if let former = arrived[message] {
            if isSame { run.checker.fail("\(receiver) got \(message) twice, although \(name) has a store") }
            if former != received?.id {
                run.checker.fail("\(receiver) got \(message) again under another identifier")
            }
            if let received, !received.isRepeated, !hasOwnSession {
                run.checker.fail("\(receiver) got \(message) again, and it is not marked as repeated")
            }
            return
        }
        arrived[message] = .some(received?.id)
        guard !hasOwnSession else { return }
        if message.user < last.user, isSame {
            run.checker.fail(
                "\(receiver) got \(message) of an earlier process of \(name) after one of user \(last.user)"
            )
        }
        last.user = max(last.user, message.user)
        let sender = "\(message.user)/\(message.sender)/\(message.isAnswer)"
        if let former = last.numbers[sender], former >= message.number {
            run.checker.fail("\(receiver) got \(message) of \(name) first after number \(former)")
        }
        last.numbers[sender] = message.number
    }

    /// A message that was accepted and has not arrived.
    var lacking: StackMessage? { owed.min { ($0.user, $0.sender, $0.number) < ($1.user, $1.sender, $1.number) } }

    /// Fails if an accepted message is neither received nor in the store. Call this after the end.
    func checkEnd() {
        if !disk.isIntact { run.checker.fail("\(name): the next process would not find what the store was given") }
        let kept = disk.messages
        for message in owed where !kept.contains(message) {
            run.checker.fail("\(name): \(message) was accepted with a store, and is neither received nor in the store")
        }
    }

    // MARK: Messages of servers

    /// The app of the client was given a message.
    func gives(_ received: ReceivedMessage) {
        guard let message = StackMessage(received.payload.bytes) else { return }
        guard let id = received.id else {
            return run.checker.fail("\(name) got \(message) without an identifier")
        }
        if processed.contains(message) {
            run.checker.fail("\(name) got \(message) again, whose acknowledgement was stored")
        }
        guard let former = given.updateValue(id, forKey: message) else { return }
        if former != id { run.checker.fail("\(name) got \(message) again under another identifier") }
        if !received.isRepeated { run.checker.fail("\(name) got \(message) again, and it is not marked as repeated") }
    }

    /// The app of the client is about to acknowledge a message.
    func acknowledges(_ received: ReceivedMessage) {
        // An identifier ends with its number.
        guard let message = StackMessage(received.payload.bytes),
            let number = received.id.flatMap({ UInt64($0.description.split(separator: ":").last ?? "") })
        else { return }
        acknowledged.append((number, message))
    }

    /// The store has the record of a session in which the messages up to this number were processed.
    func stored(processed number: UInt64) {
        for entry in acknowledged where entry.number <= number { processed.insert(entry.message) }
    }
}
