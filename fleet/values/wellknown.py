"""Names that both houses spell alike."""

LOCAL = "localhost"  # who asks for this name is shown the certificate of the hub's own CA
SYSTEM_USER = "system:fleet"  # who writes what the hub writes by itself
HANDLING_FAILED = "HandlingFailed"  # condition: True while the hub cannot handle the object; also an Event
