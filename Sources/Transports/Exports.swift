// One import is enough for an app: what the interface of this module mentions is visible with it.
@_exported import Codecs
@_exported import SocketIO
@_exported import TransportAPI
