# SPDX-License-Identifier: Apache-2.0
"""The one data model that every reader and engine fills and every question reads."""

from ttmem.profile.model import AFTER_SUBMIT as AFTER_SUBMIT
from ttmem.profile.model import BEFORE_OPERATION as BEFORE_OPERATION
from ttmem.profile.model import BEFORE_SUBMIT as BEFORE_SUBMIT
from ttmem.profile.model import CLOSING as CLOSING
from ttmem.profile.model import GIVE as GIVE
from ttmem.profile.model import GIVEN as GIVEN
from ttmem.profile.model import L1_PARTS as L1_PARTS
from ttmem.profile.model import LAUNCH as LAUNCH
from ttmem.profile.model import MEMORIES as MEMORIES
from ttmem.profile.model import SNAPSHOT as SNAPSHOT
from ttmem.profile.model import START as START
from ttmem.profile.model import STATE_NAMES as STATE_NAMES
from ttmem.profile.model import SUITE_KIND as SUITE_KIND
from ttmem.profile.model import TAKE as TAKE
from ttmem.profile.model import USE as USE
from ttmem.profile.model import VIEW_ALLOCATED as VIEW_ALLOCATED
from ttmem.profile.model import VIEW_BANKS as VIEW_BANKS
from ttmem.profile.model import VIEW_FREE as VIEW_FREE
from ttmem.profile.model import VIEW_LARGEST_FREE as VIEW_LARGEST_FREE
from ttmem.profile.model import VIEW_TOTAL as VIEW_TOTAL
from ttmem.profile.model import WITHIN_OPERATION as WITHIN_OPERATION
from ttmem.profile.model import Argument as Argument
from ttmem.profile.model import BufferTable as BufferTable
from ttmem.profile.model import CacheLookup as CacheLookup
from ttmem.profile.model import EventTable as EventTable
from ttmem.profile.model import FailureText as FailureText
from ttmem.profile.model import Profile as Profile
from ttmem.profile.model import Program as Program
from ttmem.profile.model import ProgramsL1 as ProgramsL1
from ttmem.profile.model import Source as Source
from ttmem.profile.model import Timeline as Timeline
from ttmem.profile.operation_forms import OperationForm as OperationForm
from ttmem.profile.operation_forms import OperationForms as OperationForms
from ttmem.profile.tensor_type import HOST as HOST
from ttmem.profile.tensor_type import TensorType as TensorType
