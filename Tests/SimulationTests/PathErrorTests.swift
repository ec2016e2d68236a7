import SocketIO
import Testing
import TransportAPI
import Transports

@testable import EmbeddedServers
@testable import Simulation

/// The kernel gives an error of the path, such as an ICMP message, to the next call of a connected datagram socket, before
/// the datagrams that wait.
@Suite("Errors of the path of datagrams", .timeLimit(.minutes(2)))
struct PathErrorTests {
    @Test("An error does not hide the datagram behind it", arguments: ["udp", "dtls"], [true, false])
    func errorBeforeDatagram(scheme: String, hasEdges: Bool) throws {
        let hosts = TwoHosts(hasEdges: hasEdges)
        let address = hosts.serve(scheme)
        #expect(hosts.run(seconds: 10) { address() != nil })
        hosts.world.kernel.conditions.pathErrors = 100
        let supervisor = try hosts.supervise(try #require(address()), SupervisorConfiguration())
        #expect(hosts.run(seconds: 2) { hosts.isOpen }, "\(hosts.error ?? "")")
        // Each pong comes with an error.
        hosts.run(seconds: 600)
        #expect(hosts.ends.isEmpty && hosts.error == nil, "\(hosts.ends) \(hosts.error ?? "")")
        hosts.onClient { await supervisor.close() }
        hosts.run(seconds: 10)
    }
}
