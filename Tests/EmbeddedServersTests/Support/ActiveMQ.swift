import Foundation
import SocketIO
import TestSupport
import Testing

/// An ActiveMQ on a free port, for STOMP over TCP. It needs some five seconds to start. It can be killed, and started again
/// with its stored messages.
final class ActiveMQ: Sendable {
    private let reserved: ReservedPort
    private let folder: ScratchFolder
    private let words: [String]
    private let process: Locked<Peer?>

    init() throws {
        reserved = try ReservedPort(isDatagram: false)
        folder = try ScratchFolder()
        let schemas = [
            "http://www.springframework.org/schema/beans",
            "http://www.springframework.org/schema/beans/spring-beans.xsd",
            "http://activemq.apache.org/schema/core", "http://activemq.apache.org/schema/core/activemq-core.xsd",
        ]
        let configuration = try folder.write(
            "activemq.xml",
            """
            <beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
                xsi:schemaLocation="\(schemas.joined(separator: " "))">
              <broker xmlns="http://activemq.apache.org/schema/core" brokerName="tests" useJmx="false"
                  advisorySupport="false" dataDirectory="\(folder.path)/data">
                <persistenceAdapter><kahaDB directory="\(folder.path)/data/kahadb"/></persistenceAdapter>
                <transportConnectors>
                  <transportConnector name="stomp" uri="stomp://127.0.0.1:\(reserved.port)"/>
                </transportConnectors>
              </broker>
            </beans>

            """
        )
        let logging = try folder.write(
            "log4j.properties",
            """
            log4j.rootLogger=INFO, console
            log4j.appender.console=org.apache.log4j.ConsoleAppender
            log4j.appender.console.layout=org.apache.log4j.PatternLayout
            log4j.appender.console.layout.ConversionPattern=%m%n

            """
        )
        let archive = try #require(Peers.activemqArchive)
        words = [
            "-Xmx256m", "-Dactivemq.home=\((archive as NSString).deletingLastPathComponent)/..",
            "-Dactivemq.base=\(folder.path)", "-Dactivemq.conf=\(folder.path)", "-Djava.io.tmpdir=\(folder.path)",
            "-Dlog4j.configuration=file:\(logging)", "-jar", archive, "start", "xbean:file:\(configuration)",
        ]
        process = Locked(nil)
        try start()
    }

    /// Kills the broker, as a crash would.
    func kill() { process.withLock { $0?.destroy() } }

    /// Starts the broker, and waits until it accepts clients.
    func start() throws {
        let peer = try Peer(try #require(Peers.activemq.path), words)
        try #require(peer.wait(for: "Connector stomp started"))
        process.withLock { $0 = peer }
    }

    /// The URL for STOMP.
    var url: String { "stomp://127.0.0.1:\(reserved.port)/?host=localhost" }

    deinit { kill() }
}
