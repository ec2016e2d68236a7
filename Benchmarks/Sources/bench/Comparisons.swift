extension Comparison {
    /// The table of all comparisons. A further contender is one file with its recipe, and one line here.
    static let all: [Comparison] = [
        Comparison(.tcpSupervisor, .tcpFloor, .atMost(1.15)),
        Comparison(.tcpConnection, .tcpFloor, .atMost(1.15)),
        Comparison(.tcpSupervisorPolling, .tcpFloor),
        Comparison(.tcpSupervisorElsewhere, .tcpFloor, .atMost(1.7)),
        Comparison(.tcpSupervisorElsewhere, .tcpSupervisor),
        Comparison(.tcpSupervisor, .tcpNIO),
        Comparison(.tcpSupervisor, .tcpNIOAsync),
        Comparison(.tcpSupervisor, .tcpConnection, .atMost(1.1)),

        Comparison(.udpSupervisor, .udpFloor, .atMost(1.15)),
        Comparison(.udpConnection, .udpFloor, .atMost(1.15)),
        Comparison(.udpSupervisorPolling, .udpFloor),

        Comparison(.webSocketSupervisor, .webSocketFloor, .atMost(1.25)),
        Comparison(.webSocketConnection, .webSocketFloor, .atMost(1.25)),
        Comparison(.webSocketSupervisorPolling, .webSocketFloor),
        Comparison(.webSocketSupervisor, .webSocketNIO, .atMost(0.95)),
        Comparison(.webSocketSupervisor, .webSocketNIOAsync),
        Comparison(.webSocketSupervisorPolling, .webSocketNIO, .atMost(0.4)),
        Comparison(.webSocketSupervisor, .webSocketFlyingFox),
        Comparison(.webSocketSupervisor, .webSocketLibwebsockets),
        Comparison(.webSocketSupervisor, .webSocketPicows),
        Comparison(.webSocketSupervisor, .webSocketConnection, .atMost(1.1)),

        Comparison(.tlsSupervisor, .tcpSupervisor, .atMost(1.2)),
        Comparison(.tlsSupervisor, .tlsNIO, .atMost(1)),
        Comparison(.tlsSupervisorPolling, .tcpSupervisorPolling),
        Comparison(.tlsConnectionLarge, .tlsOpenSSLLarge, .atLeast(0.7)),
        Comparison(.tlsConnectionLarge, .tlsNIOLarge),

        Comparison(.tcpConnectionOneWay, .tcpNIOOneWay, .atLeast(2)),
        Comparison(.tcpConnectionOneWay, .tcpOneWayFloor),
        Comparison(.tcpConnectionOneWay, .tcpOneWayCallback),
        Comparison(.webSocketConnectionOneWay, .webSocketNIOOneWay, .atLeast(2)),
        Comparison(.webSocketConnectionLarge, .webSocketNIOLarge, .atLeast(2)),

        Comparison(.connectionAtMostOnce, .libraryAtMostOnce, .atLeast(0.8)),
        Comparison(.connectionAtLeastOnce, .libraryAtLeastOnce, .atLeast(0.8)),
        Comparison(.connectionAtMostOncePolling, .libraryAtMostOnce, .atLeast(1)),
        Comparison(.connectionAtLeastOncePolling, .libraryAtLeastOnce, .atLeast(1)),
        Comparison(.embeddedFanOut, .mosquittoFanOut, .atLeast(1.5)),

        Comparison(.ourJSONEncoding, .foundationEncoding, .atLeast(15)),
        Comparison(.ourJSONDecoding, .foundationDecoding, .atLeast(15)),
        Comparison(.ourJSONEncoding, .swiftProtobufJSONEncoding),
        Comparison(.ourJSONDecoding, .swiftProtobufJSONDecoding),
        Comparison(.ourProtobufEncoding, .swiftProtobufEncoding, .atLeast(2.5)),
        Comparison(.ourProtobufDecoding, .swiftProtobufDecoding, .atLeast(2.5)),

        Comparison(.tcpSendAllocations, nil, .atMost(0)),
        Comparison(.tcpReceiveAllocations, nil, .atMost(1)),
        Comparison(.webSocketSendAllocations, nil, .atMost(0)),
        Comparison(.webSocketReceiveAllocations, nil, .atMost(1)),
    ]
}
