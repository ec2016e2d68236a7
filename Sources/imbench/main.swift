import Codecs
import Foundation
import SocketIO
import Transports
import TrialCertificates

let transports = TransportRegistry.measured.transports
let program = Program(
    [
        Program.Entry(command: .run, run: runComparison),
        Program.Entry(command: .open, run: openConnections),
        Program.Entry(command: .compare, isInterruptible: false, run: compare),
        Program.Entry(command: .overhead, run: overhead),
        Program.Entry(command: .serve, run: serve),
        Program.Entry(command: .trace, isInterruptible: false, run: trace),
        Program.Entry(command: .storm, run: storm),
        Program.Entry(command: .outage, run: outage),
        Program.Entry(command: .fanout, run: fanout),
        Program.Entry(command: .crowd, run: crowd),
        Program.Entry(command: .chat, run: chat),
        Program.Entry(command: .simulate, run: simulate),
        Program.Entry(command: .work, isInterruptible: false, run: work),
        Program.Entry(command: .heartbeat, run: heartbeat),
        Program.Entry(command: .advise, run: advise),
    ],
    transports: transports.map(\.name),
    // Transports without a port, modes, and one transport over another are measured only on request.
    defaultTransports: TransportRegistry.available.transports
        .filter { $0.defaultPort != nil && !$0.isComposed && !$0.isEncrypted }
        .map(\.name),
    local: transports.filter { $0.defaultPort == nil }.map(\.name),
    modes: TransportMode.namesOfMeasuredOnly,
    codecs: WireFormat.allCases.map(\.name)
)
let commandWords = Array(CommandLine.arguments.dropFirst())
// Child processes of this program and of its tests.
if commandWords.first == ClientsProcess.word, commandWords.count <= 2 {
    exit(crowdClients(STDIN_FILENO, STDOUT_FILENO, trusting: commandWords.dropFirst().first))
}
if commandWords.first == KillPeer.word, let side = KillPeer(Array(commandWords.dropFirst())) { exit(side.run()) }
exit(program.run(commandWords))
