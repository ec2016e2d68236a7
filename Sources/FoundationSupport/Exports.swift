// An app needs only one import, because the modules that this module's interface mentions are exported.
@_exported import Transports
