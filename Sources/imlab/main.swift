import Crowds
import Foundation
import Reporting

let commandWords = Array(CommandLine.arguments.dropFirst())
// The child process of this program and of its tests.
if commandWords.first == ClientsProcess.word, commandWords.count <= 2 {
    exit(crowdClients(STDIN_FILENO, STDOUT_FILENO, trusting: commandWords.dropFirst().first))
}
exit(Program(vocabulary: .laboratory).run(commandWords))
