import Protocols
import SocketIO
import TransportAPI

/// Handles the connections of a server over HTTP: each request gets a page, or is passed to the sessions. A connection that
/// becomes a WebSocket gets the app's handler. Lives on its loop.
final class HTTPConnections: ConnectionHandler {
    private let sessions: HTTPSessions
    private let pages: [WebPage]
    /// The handler of connections that carry messages themselves.
    private let handler: any ConnectionHandler
    /// The open connections that carry requests.
    private var carriers: [UInt64: ConnectionDriver] = [:]

    init(_ sessions: HTTPSessions, pages: [WebPage], handler: any ConnectionHandler) {
        (self.sessions, self.pages, self.handler) = (sessions, pages, handler)
    }

    func handle(_ event: CoreEvent, on driver: ConnectionDriver) {
        switch event {
        case .opened: opened(driver)
        case .signal(let signal):
            if let request = signal.http { respond(request, on: driver) }
            if let (request, count) = signal.arrivingHTTP { sessions.arrives(request, count, on: driver) }
            if signal.opensWebSocket { openedWebSocket(driver) }
        case .message, .pong, .acknowledged, .written, .refused, .discarded, .progress, .closed: break
        }
    }

    private func opened(_ driver: ConnectionDriver) {
        guard (driver.core as? HTTPServerCore)?.isWebSocket == true else {
            carriers[driver.number] = driver
            return
        }
        openedWebSocket(driver)
    }

    private func openedWebSocket(_ driver: ConnectionDriver) {
        carriers[driver.number] = nil
        guard !sessions.isClosed else { return driver.beginClose(.user) }
        driver.handler = handler
        handler.handle(.opened, on: driver)
    }

    private func respond(_ request: HTTPRequest, on driver: ConnectionDriver) {
        guard !FormQuery.contains(prefix: HTTPServerCore.parameterPrefix, request.query),
            let page = pages.first(where: { $0.path == request.path })
        else { return sessions.respond(request, on: driver) }
        let exchange = HTTPExchange(connection: driver, headers: [])
        guard request.method == "GET" || request.method == "HEAD" else {
            return exchange.answer(405, "", [HTTPHeader(parsed: "Allow", "GET, HEAD")])
        }
        do throws(HTTPRefusal) {
            try request.checkOrigin(sessions.setup.admission)
            exchange.answer(page.response)
        } catch {
            sessions.refuse(exchange, error)
        }
    }

    func roomMade(_ driver: ConnectionDriver) {
        sessions.waiting[driver.number]?.roomMade()
    }

    func ended(_ driver: ConnectionDriver, _: CloseReason) {
        carriers[driver.number] = nil
        sessions.connectionEnded(driver.number)
    }

    /// Closes the connections that carry requests, after the answers that were given.
    func close() {
        for driver in carriers.values { driver.beginClose(.user) }
    }
}
