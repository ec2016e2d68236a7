import Testing

@testable import EmulatedNetworks
@testable import Reporting
@testable import imbench

@Suite("The timeline of requests")
struct RequestTimelineTests {
    private func packet(_ summary: String, port: UInt16, fromClient: Bool, at milliseconds: Int64) -> LinkRecord {
        LinkRecord(
            isFromClient: fromClient,
            clientPort: port,
            summary: summary,
            bytes: 100,
            sent: milliseconds * 1_000_000,
            arrival: (milliseconds + 35) * 1_000_000
        )
    }

    private func timeline(_ transport: String, _ packets: [LinkRecord]) -> RequestTimeline {
        RequestTimeline(network: "4g", transport: transport, packets: packets, time: 0..<3_000_000_000)
    }

    private func rows(_ timeline: RequestTimeline) throws -> [BarChart.Row] {
        try #require(RequestTimeline.chart([timeline], inOrderOf: [timeline.transport])).rows
    }

    @Test("A request lasts until its answer has arrived, and each connection has its row")
    func polls() throws {
        let rows = try rows(
            timeline(
                "http-poll",
                [
                    packet("SYN", port: 1, fromClient: true, at: 1),
                    packet("HTTP GET", port: 1, fromClient: true, at: 100),
                    packet("HTTP POST", port: 2, fromClient: true, at: 120),
                    packet("HTTP 204", port: 1, fromClient: false, at: 135),
                    packet("HTTP 204", port: 2, fromClient: false, at: 155),
                    packet("HTTP GET", port: 1, fromClient: true, at: 1100),
                    packet("HTTP 200", port: 1, fromClient: false, at: 1135),
                ]
            )
        )
        #expect(rows.map(\.label) == ["http-poll, POST", "http-poll, GET"])
        #expect(rows.map(\.value) == ["1 request", "2 requests"])
        #expect(rows[1].spans.map(\.from) == [100, 1100] && rows[1].spans.map(\.to) == [170, 1170])
        #expect(rows[1].spans.allSatisfy { $0.kind == .third })
    }

    @Test("A request that left before the recording, or has no answer at its end, fills the time")
    func heldRequest() throws {
        let rows = try rows(
            timeline(
                "http-long-poll",
                [
                    packet("HTTP 200", port: 1, fromClient: false, at: 500),
                    packet("HTTP GET", port: 1, fromClient: true, at: 540),
                ]
            )
        )
        #expect(rows[0].spans.map(\.from) == [0, 540] && rows[0].spans.map(\.to) == [535, 3000])
    }

    @Test("What a server sends without being asked is no answer")
    func stream() throws {
        let rows = try rows(
            timeline(
                "http-sse",
                [
                    packet("HTTP POST", port: 2, fromClient: true, at: 10),
                    packet("180 bytes", port: 1, fromClient: false, at: 45),
                    packet("HTTP 204", port: 2, fromClient: false, at: 46),
                ]
            )
        )
        #expect(rows.map(\.label) == ["http-sse, POST", "http-sse, stream"])
        #expect(rows[1].spans.map(\.kind) == [.first])
    }

    @Test("A connection belongs to the transport in whose repeat it carried the most bytes")
    func foreignConnection() throws {
        let poll = [
            packet("HTTP GET", port: 1, fromClient: true, at: 10),
            packet("HTTP 200", port: 1, fromClient: false, at: 45),
        ]
        let idle = [packet("HTTP GET", port: 1, fromClient: true, at: 10)]
        let own = [packet("HTTP POST", port: 2, fromClient: true, at: 20)]
        let chart = try #require(
            RequestTimeline.chart(
                [timeline("http-poll", poll), timeline("http-sse", idle + own)],
                inOrderOf: ["http-poll", "http-sse"]
            )
        )
        #expect(chart.rows.map(\.label) == ["http-poll, GET", "http-sse, POST"])
    }

    @Test("The rows are in the order of the report's transports, whatever the order of their repeats")
    func order() throws {
        func messages(_ port: UInt16) -> [LinkRecord] {
            [
                packet("PUBLISH", port: port, fromClient: true, at: 10),
                packet("PUBLISH", port: port, fromClient: false, at: 45),
            ]
        }
        let poll = [packet("HTTP GET", port: 3, fromClient: true, at: 10)]
        let timelines = [timeline("http-poll", poll), timeline("mqtt", messages(2)), timeline("tcp", messages(1))]
        for recorded in [timelines, timelines.reversed()] {
            let chart = RequestTimeline.chart(recorded, inOrderOf: ["tcp", "mqtt", "http-poll"])
            #expect(try #require(chart).rows.map(\.label) == ["tcp", "mqtt", "http-poll, GET"])
        }
    }

    @Test("What other transports send during the repeat of one with frames is not a row of it")
    func frames() throws {
        let own = (0..<20).flatMap { number in
            [
                packet("80 bytes", port: 1, fromClient: true, at: 100 * number + 10),
                packet("80 bytes", port: 1, fromClient: false, at: 100 * number + 45),
            ]
        }
        let comment = [packet("12 bytes", port: 8, fromClient: false, at: 700)]
        let poll = [packet("HTTP GET", port: 9, fromClient: true, at: 10)]
        let chart = RequestTimeline.chart(
            [
                timeline("ws", own + comment + poll),
                timeline("http", [packet("HTTP GET", port: 7, fromClient: true, at: 9)]),
            ],
            inOrderOf: ["ws", "http"]
        )
        #expect(try #require(chart).rows.map(\.label) == ["ws", "http, GET"])
    }

    @Test("Encryption hides where a request begins, so it has no row")
    func encrypted() {
        let packets = [packet("encrypted", port: 1, fromClient: true, at: 10)]
        let plain = timeline("http", [packet("HTTP GET", port: 2, fromClient: true, at: 10)])
        let chart = RequestTimeline.chart([timeline("https", packets), plain], inOrderOf: ["https", "http"])
        #expect(chart?.rows.map(\.label) == ["http, GET"])
    }

    @Test("There is no chart without any request over HTTP")
    func nothing() {
        let timeline = timeline("ws", [packet("80 bytes", port: 1, fromClient: true, at: 1)])
        #expect(RequestTimeline.chart([timeline], inOrderOf: ["ws"]) == nil)
    }
}
