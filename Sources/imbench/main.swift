import Codecs
import Crowds
import Foundation
import Reporting
import SocketIO
import Transports
import TrialCertificates
import Workloads

let commandWords = Array(CommandLine.arguments.dropFirst())
// Child processes of this program and of its tests.
if commandWords.first == ClientsProcess.word, commandWords.count <= 2 {
    exit(crowdClients(STDIN_FILENO, STDOUT_FILENO, trusting: commandWords.dropFirst().first))
}
if commandWords.first == KillPeer.word, let side = KillPeer(Array(commandWords.dropFirst())) { exit(side.run()) }
if commandWords.first == KilledApp.word, let app = KilledApp(Array(commandWords.dropFirst())) { exit(app.run()) }
exit(Program(vocabulary: .measured).run(commandWords))
