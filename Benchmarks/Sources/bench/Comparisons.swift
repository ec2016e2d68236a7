extension Comparison {
    /// The table of all comparisons. A further contender is one file with its recipe, and one line here.
    static let all: [Comparison] = [
        Comparison(.tcpSupervisor, .tcpFloor, .atMost(1.15)),
        Comparison(.tcpLink, .tcpFloor, .atMost(1.15)),
        Comparison(.tcpSupervisorPolling, .tcpFloor),
        Comparison(.tcpSupervisorElsewhere, .tcpFloor, .atMost(1.7)),
        Comparison(.tcpSupervisorElsewhere, .tcpSupervisor),
        Comparison(.tcpSupervisor, .tcpNIO),
        Comparison(.tcpSupervisor, .tcpNIOAsync),
        Comparison(.tcpSupervisor, .tcpLink, .atMost(1.1)),

        Comparison(.udpSupervisor, .udpFloor, .atMost(1.15)),
        Comparison(.udpLink, .udpFloor, .atMost(1.15)),
        Comparison(.udpSupervisorPolling, .udpFloor),

        Comparison(.webSocketSupervisor, .webSocketFloor, .atMost(1.25)),
        Comparison(.webSocketLink, .webSocketFloor, .atMost(1.25)),
        Comparison(.webSocketSupervisorPolling, .webSocketFloor),
        Comparison(.webSocketSupervisor, .webSocketNIO, .atMost(0.95)),
        Comparison(.webSocketSupervisor, .webSocketNIOAsync),
        Comparison(.webSocketSupervisorPolling, .webSocketNIO, .atMost(0.4)),
        Comparison(.webSocketSupervisor, .webSocketFlyingFox),
        Comparison(.webSocketSupervisor, .webSocketLibwebsockets),
        Comparison(.webSocketSupervisor, .webSocketPicows),
        Comparison(.webSocketSupervisor, .webSocketLink, .atMost(1.1)),

        Comparison(.tcpLinkOneWay, .tcpNIOOneWay, .atLeast(2)),
        Comparison(.tcpLinkOneWay, .tcpOneWayFloor),
        Comparison(.tcpLinkOneWay, .tcpOneWayCallback),
        Comparison(.webSocketLinkOneWay, .webSocketNIOOneWay, .atLeast(2)),
        Comparison(.webSocketLinkLarge, .webSocketNIOLarge, .atLeast(2)),

        Comparison(.linkAtMostOnce, .libraryAtMostOnce, .atLeast(0.8)),
        Comparison(.linkAtLeastOnce, .libraryAtLeastOnce, .atLeast(0.8)),
        Comparison(.linkAtMostOncePolling, .libraryAtMostOnce, .atLeast(1)),
        Comparison(.linkAtLeastOncePolling, .libraryAtLeastOnce, .atLeast(1)),
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
