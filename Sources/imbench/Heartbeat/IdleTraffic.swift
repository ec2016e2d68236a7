import CommandSupport
import SocketIO
import TransportAPI
import Transports
import Workloads

/// What a connection over HTTP sends and receives in silence, beside pings: polls, or the comments of an event stream.
struct IdleTraffic: Sendable, Equatable {
    /// How often it comes by default.
    var interval: Duration
    /// Bytes of one exchange on all layers, measured; `nil` if that failed.
    var bytes: Double?

    /// That of a transport by default, not measured yet; `nil` if it is silent.
    init?(of transport: String) {
        switch transport {
        case "http", "https", "http-sse": interval = HTTPSessionLimits().commentInterval
        case "http-long-poll": interval = HTTPSessionLimits().hold
        case "http-poll": interval = TransportMode.pollInterval
        default: return nil
        }
    }

    /// The bytes of a day; `nil` if they were not measured.
    var bytesPerDay: Double? { bytes.map { $0 * interval.perDay } }

    /// The options of a server at which each kind comes every second.
    private static let often = "hold=1s&session-timeout=3s"
    private static let measuredSeconds = 4

    /// Measures the bytes with a server where it comes more often.
    mutating func measure(_ name: String, on stage: Stage) throws {
        let transport = try stage.transport(name, serverOptions: Self.often)
        let loop = stage.clientLoop
        let measured = runInterruptibly(on: loop) { () async -> Result<UInt64, TransportError> in
            do throws(TransportError) {
                let connection = try await transport.connect(timeout: EchoBench.Limits().connect)
                // The second lane has its connection by then.
                await loop.pause(.milliseconds(500))
                let before = ConnectionCosts.total(await connection.statistics())
                await loop.pause(.seconds(Self.measuredSeconds))
                let after = ConnectionCosts.total(await connection.statistics())
                await connection.close()
                return .success(after - min(after, before))
            } catch {
                return .failure(error)
            }
        }
        bytes = Double(try measured.get()) / Double(Self.measuredSeconds)
    }
}

extension Duration {
    /// How many intervals of this length a day has; 0 if it has none.
    var perDay: Double {
        let seconds = Double(wholeNanoseconds) / 1e9
        return seconds > 0 ? Double(ConnectionCosts.secondsPerDay) / seconds : 0
    }
}
